"""The tests, from pure units up to the installed wheel; see docs/how-to for how to run a part."""
