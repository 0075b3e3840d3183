"""Rejected rows: how many are tolerated, where they are sent, and how they are replayed."""
