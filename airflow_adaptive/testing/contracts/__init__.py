"""Contract suites that fakes and real implementations both pass."""
