"""The scheduled policy advises bounds by a calendar."""
