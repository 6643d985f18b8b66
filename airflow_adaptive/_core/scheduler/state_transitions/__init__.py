"""State transitions that the handlers of the states share.

Every handler in `states` returns the `Step` that one of these functions builds, so that each transition is built once. A function has the
name of the state that it enters (`go_to_<state>`), or of the reason to leave the plan: `rescale`, `plan_again`, `stop_and_wait` and
`handle_failure` enter Restarting, and a rescale of executors enters Deploying. `steps` builds a step; `start`, `restart`, `recovery`
and `stop` enter the states.
"""
