"""The scheduled policy: bounds by the calendar."""
