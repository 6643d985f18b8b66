"""Resource requirements: their sources, the resolver that chooses between them, and the bodies of FLIP-291."""
