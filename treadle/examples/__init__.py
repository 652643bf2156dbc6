"""Complete applications that ship with Treadle and run without a key or a network."""
