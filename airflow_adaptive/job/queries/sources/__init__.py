"""The sources of a query: their partitions, and how far the query is behind them."""
