"""The door to git. What lies behind it is hostile: branch names, file names, attributes, links, hooks, config."""
