"""Recommendations: every plan that fits, ranked, with what would change the answer."""
