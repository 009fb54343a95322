import Glibc

/// Standard input, output and error of this process.
public enum StandardStreams {
    /// Puts something in the place of each of them that was closed, as by `2>&-`.
    ///
    /// Otherwise the next file that is opened gets its number, and what is printed ends up in that file. To read from such a
    /// stream, or to write to it, fails as it did.
    public static func occupy() {
        for number in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where fcntl(number, F_GETFD) == -1 {
            // It gets the lowest number that is free, which is this one.
            _ = open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }
}
