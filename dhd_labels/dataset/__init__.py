"""From graded outcomes and labels to a published data set: schema, build, card, publish, load."""
