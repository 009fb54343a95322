import Foundation

/// libFuzzer's entry, for programs that bring their own `main`.
@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ count: UnsafeMutablePointer<Int32>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
    _ entry: @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
) -> Int32

/// `HealthRelayFuzz list`; `HealthRelayFuzz prepare TARGET FIXTURES CORPUS DICTIONARY`, which prints the longest input;
/// `HealthRelayFuzz TARGET …` with libFuzzer's arguments.
@main
enum FuzzMain {
    /// libFuzzer takes a C function, which can carry nothing: written once, before the first input.
    nonisolated(unsafe) private static var target = FuzzTarget.characteristic

    static func main() throws {
        let arguments = CommandLine.arguments.dropFirst()
        if arguments.first == "list" { return FuzzTarget.all.forEach { print($0.name) } }
        let isPreparing = arguments.first == "prepare"
        let name = isPreparing ? arguments.dropFirst().first : arguments.first
        guard let found = FuzzTarget.all.first(where: { $0.name == name }) else {
            FileHandle.standardError.write(Data("no such target: \(name ?? "")\n".utf8))
            exit(64)
        }
        if isPreparing {
            guard arguments.count == 5 else { exit(64) }
            return try prepare(found, Array(arguments.suffix(3)))
        }
        target = found
        var count = CommandLine.argc - 1
        // libFuzzer's first argument is the program's name; the target's stands for it.
        var rest: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = CommandLine.unsafeArgv + 1
        exit(
            runDriver(&count, &rest) { start, count in
                FuzzMain.target.run(Array(UnsafeBufferPointer(start: start, count: count)))
                return 0
            })
    }

    private static func prepare(_ target: FuzzTarget, _ paths: [String]) throws {
        for (number, seed) in try target.seeds(paths[0]).enumerated() {
            try Data(seed).write(to: URL(fileURLWithPath: "\(paths[1])/seed-\(number)"))
        }
        let lines = target.words.map { word in
            let escaped = word.utf8.map { octet in
                let hex = String(octet, radix: 16)
                return "\\x" + (octet < 16 ? "0" : "") + hex
            }
            return "\"\(escaped.joined())\"\n"
        }
        try lines.joined().write(toFile: paths[2], atomically: true, encoding: .utf8)
        print(target.longest)
    }
}
