import GATTClient
import HCICapture

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

// capture-count FILE            counts ATT values through HCICapture's index
// capture-count --replay FILE   reads every value through ReplayCentral, as a reader of meters would

func replay(_ path: String) async throws -> Int {
    var count = 0
    for try await peripheral in try ReplayCentral(paths: [path]).peripherals() {
        _ = try await peripheral.connect()
        let characteristics = try await peripheral.characteristics()
        for characteristic in characteristics where characteristic.uuid != 0x2A51 {
            try await peripheral.startNotifying(characteristic)
        }
        if let control = characteristics.first(where: { $0.uuid == 0x2A52 }) {
            try await peripheral.write([1, 1], to: control, expectingResponse: true)
        }
        while case .values(let values) = try await peripheral.nextValues(within: .seconds(30)) { count += values.count }
        await peripheral.disconnect()
    }
    return count
}

let arguments = CommandLine.arguments
guard let path = arguments.last, arguments.count > 1 else { exit(64) }
let clock = ContinuousClock()
let begin = clock.now
let values = try await arguments[1] == "--replay" ? replay(path) : CaptureIndex(path: path).attValues
let seconds = (clock.now - begin) / .seconds(1)
var usage = rusage()
#if canImport(Darwin)
    getrusage(RUSAGE_SELF, &usage)
#else
    getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
#endif
print("\(values) values, \(Double(Int(seconds * 1000)) / 1000) s, \(usage.ru_maxrss) kB resident")
