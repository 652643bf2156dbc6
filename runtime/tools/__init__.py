"""Declaring tools, describing them to a model, and running them."""
