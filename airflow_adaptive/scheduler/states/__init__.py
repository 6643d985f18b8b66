"""One file per state: what each event means there, and the state's deadlines.

The states' data is in `state`, entering them in `moves`; `running` is what the states of a running job have in common.
"""
