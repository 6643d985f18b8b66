"""What must hold in every simulation."""
