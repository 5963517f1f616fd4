"""An embedded GitHub for the demo and the tests: REST, git over HTTP and a page, on the loopback alone."""
