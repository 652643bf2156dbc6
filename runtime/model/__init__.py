"""Asking a model: rendering, attempts, prices, and the providers."""
