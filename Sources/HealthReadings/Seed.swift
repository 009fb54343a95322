// placeholder for the prebuild
