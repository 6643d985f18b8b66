"""Histories as folds over the steps of the scheduler: rescales and failures."""
