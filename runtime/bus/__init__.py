"""Asking and serving over NATS, or over the same bus in memory."""
