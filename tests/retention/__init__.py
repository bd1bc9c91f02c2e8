"""Tests of retention and the cleaner (LIFE-8 … LIFE-13)."""
