"""Records of databases as recovery leaves them: listed, exported, and every version of a key."""
