"""The method and its peers: one contract, pure functions on small pytrees."""
