"""Benchmarks of Paceline itself: suites that compare predictions with measurements, and all runs so far."""
