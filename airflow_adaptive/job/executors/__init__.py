"""The executors of the application, and the placement of stateful tasks on them."""
