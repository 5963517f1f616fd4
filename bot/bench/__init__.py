"""The door to variant code: what is started here runs without network, without secrets and with a deadline."""
