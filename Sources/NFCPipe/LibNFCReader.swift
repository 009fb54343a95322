/// A reader as libnfc names it: a driver, and for most a port and a speed, as in `pn532_uart:/dev/ttyACM0:115200`.
public struct LibNFCReader: Sendable, Hashable, CustomStringConvertible {
    /// The driver's name.
    public var driver: String
    /// What follows it: a path, or a number of a bus; nil where the driver is to find the reader itself.
    public var port: String?
    /// The port's speed in bits a second.
    public var speed: UInt32?

    /// A path may hold colons, as those in /dev/serial/by-path do: only a number behind the last one is a speed.
    /// - Returns: nil where the text names no driver.
    public init?(_ text: String) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let name = parts.first, !name.isEmpty,
            name.utf8.allSatisfy({ (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x5F })
        else { return nil }
        driver = String(name)
        guard parts.count == 2, !parts[1].isEmpty else { return }
        let rest = parts[1]
        if rest.hasPrefix("/"), let colon = rest.lastIndex(of: ":"),
            let number = UInt32(rest[rest.index(after: colon)...])
        {
            (port, speed) = (String(rest[..<colon]), number)
        } else {
            port = String(rest)
        }
    }

    /// The path of the port, where the reader has one.
    public var path: String? { port.flatMap { $0.hasPrefix("/") ? $0 : nil } }

    /// libnfc's connection string.
    public var description: String {
        ([driver] + (port.map { [$0] } ?? []) + (speed.map { ["\($0)"] } ?? [])).joined(separator: ":")
    }
}
