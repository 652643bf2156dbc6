"""Whole worlds under one fault: many runs, many owners, one broker. See ``table``."""
