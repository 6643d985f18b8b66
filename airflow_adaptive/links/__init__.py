"""Extra links of the operators."""
