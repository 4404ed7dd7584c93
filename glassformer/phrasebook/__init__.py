"""The embedded English–French–Korean corpus."""
