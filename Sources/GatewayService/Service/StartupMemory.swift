import Foundation
import ServiceLifecycle

/// Lets go of what the start has brought into memory and what waiting for meters does not need.
///
/// Most of an idle gateway's resident memory is pages of its own executable that were run once, at the start. They are
/// clean and can be read again at any time, so the kernel is told that they are not wanted; what is still run comes back
/// with its next use, a page at a time.
struct StartupMemory: Service {
    /// How long after the start.
    private static let delay: Duration = .seconds(3)

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            try await Task.sleep(for: Self.delay)
            Self.release()
        }
        try? await gracefulShutdown()
    }

    /// Tells the kernel; where it does not listen, nothing is lost.
    static func release() {
        guard let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"),
            let maps = try? String(contentsOfFile: "/proc/self/maps", encoding: .utf8)
        else { return }
        for line in maps.split(separator: "\n") where line.hasSuffix(own) {
            let fields = line.split(separator: " ", omittingEmptySubsequences: true)
            // What was never written to is only that which may not be.
            guard fields.count >= 6, fields[1] == "r-xp" else { continue }
            let ends = fields[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
            guard ends.count == 2, ends[0] < ends[1], let start = UnsafeMutableRawPointer(bitPattern: ends[0]) else {
                continue
            }
            madvise(start, Int(ends[1] - ends[0]), MADV_DONTNEED)
        }
    }
}
