"""Measurements beside peers, in one run. Floor: course."""
