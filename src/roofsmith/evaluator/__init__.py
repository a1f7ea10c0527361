"""Evaluates candidates in one place: build, check, time, profile, inspect, trace."""
