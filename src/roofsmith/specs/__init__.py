"""Cited limits of devices."""
