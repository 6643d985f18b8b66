"""One module for each state: the meaning of each event in the state, and the deadlines of the state.

The module `state` has the data of the states, `state_transitions` enters them, and `running` is the common part of the states with a
running job.
"""
