"""Scripted group sessions over the wire, against any broker."""
