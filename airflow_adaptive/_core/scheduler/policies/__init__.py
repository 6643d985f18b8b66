"""Policies: pure decisions, which the state machine combines. No policy imports another policy.

* `transition_manager`: when a change leads to a transition: cooldown, stabilization, trigger (FLIP-322, FLIP-461).
* `rescaling`: whether another parallelism justifies a rescale, and the rescale tiers.
* `restart_backoff`: whether and when a failed job restarts (FLIP-364), and the reproducible jitter of delays.
* `failure_handling`: whether a restart can help after a failure.
"""
