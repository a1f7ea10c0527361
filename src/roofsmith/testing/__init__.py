"""Fakes and conformance suites for every port."""
