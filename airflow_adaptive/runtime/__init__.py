"""The one loop of a job and what it needs: it observes the world, takes a step, and carries the step's commands out."""
