"""Contract suites, which both the fakes and the real implementations pass."""
