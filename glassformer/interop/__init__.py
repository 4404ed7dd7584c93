"""Models of other tools, in and out. What a family there is called here, and how its weights lie, is one file each."""
