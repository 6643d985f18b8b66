"""The control loop of one job: it observes the external systems, steps the scheduler, persists each step and executes its commands."""
