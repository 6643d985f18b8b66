"""State transitions that the handlers of the states share.

Every handler in `states` returns the `Step` that one of these functions builds. A state is entered by one function only
(`go_to_<state>`), so that the state begins in the same way from everywhere. `steps` builds a step, `start`, `restart`, `recovery`
and `stop` enter the states.
"""
