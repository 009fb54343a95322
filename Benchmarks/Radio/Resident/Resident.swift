import Glibc

/// How much memory a process holds.
public enum Resident {
    /// The most this process held, in kB. What getrusage says is no use: it counts what the process was before it became
    /// this program, and so never less than the program that started it.
    public static func most() -> Int {
        guard let file = fopen("/proc/self/status", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        while fgets(&line, Int32(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
            if text.hasPrefix("VmHWM:") {
                return text.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }.first ?? 0
            }
        }
        return 0
    }
}
