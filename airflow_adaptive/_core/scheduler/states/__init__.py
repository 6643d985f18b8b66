"""The meaning of each event in each state, and the deadlines of the states: before the queries run, until a plan is active, while it is, and at the end.

The module `state` has the data of the states, and `state_transitions` enters them.
"""
