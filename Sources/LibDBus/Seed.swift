enum Seed {}
