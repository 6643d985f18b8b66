"""Policies: pure decisions that the machine composes. No policy knows another.

* `slot_allocation`: how many slots are wanted, and which parallelism a number of slots gives (S4).
* `task_placement`: which subtask lies in which slot (FLIP-370, S13).
* `load_balancing`: which slots are used, and which slot goes to which worker (FLIP-370, S13).
* `transition_manager`: when a change may be acted on: cooldown, stabilisation, trigger (FLIP-322, FLIP-461).
* `rescaling`: whether another parallelism is worth a rescale, and the cheapest tier that reaches it (S3).
* `restart_backoff`: whether and when a failed job restarts (S5).
* `failure_handling`: whether a failure can be recovered from at all (S5).
"""
