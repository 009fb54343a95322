import EmulatedReader
import EncodedSensor
import Foundation
import ISO15693Reader
import LibreReader

/// Times scans of an emulated sensor beside the bare C program, in turn: `scan-benchmark FLOOR HELPER [ROUNDS]`.
///
/// Cold is from nothing to a closed reader: a process is started, the port opened, the sensor read, the port closed.
/// Warm is with the reader open, as in the gateway. Bar: cold within 1.3 x the C program.
@main
enum ScanBenchmark {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count >= 3 else { exit(64) }
        let rounds = arguments.count > 3 ? Int(arguments[3]) ?? 40 : 40
        let sensor = EncodedSensor(age: 7777)
        let emulated = try EmulatedReader(tag: EmulatedTag(memory: sensor.memory))
        let readers = NFCReaders(helper: arguments[2])
        let open = try readers.reader(emulated.setting)
        var (floor, cold, warm) = ([Double](), [Double](), [Double]())
        for _ in 0..<rounds {
            floor.append(try await time { try run(arguments[1], emulated.setting) })
            cold.append(
                try await time {
                    let reader = try readers.reader(emulated.setting)
                    try await scan(reader, sensor)
                    await reader.close()
                })
            try await scan(open, sensor)
            warm.append(try await time { try await scan(open, sensor) })
            await open.close()
        }
        let ratio = median(cold) / median(floor)
        print(
            String(
                format: "%d scans each: C program %.1f ms, scan %.1f ms (%.2f x), with the reader open %.1f ms", rounds,
                median(floor) * 1000, median(cold) * 1000, ratio, median(warm) * 1000))
        if ratio > 1.3 {
            print("a bar is missed")
            exit(1)
        }
    }

    private static func scan(_ reader: any TagReader, _ sensor: EncodedSensor) async throws {
        guard try await Libre1Reader(reader).read().memory.octets == sensor.memory else {
            print("a scan is wrong")
            exit(1)
        }
    }

    /// Runs a program to its end, as its shell would.
    private static func run(_ program: String, _ argument: String) throws {
        var process = pid_t()
        let words = [strdup(program), strdup(argument), nil]
        defer { for word in words { free(word) } }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        defer { posix_spawn_file_actions_destroy(&actions) }
        var status: Int32 = 0
        guard posix_spawn(&process, program, &actions, nil, words, environ) == 0,
            waitpid(process, &status, 0) == process, status == 0
        else {
            print("the C program failed")
            exit(1)
        }
    }

    private static func time(_ body: @Sendable () async throws -> Void) async rethrows -> Double {
        let begun = ContinuousClock.now
        try await body()
        let taken = ContinuousClock.now - begun
        return Double(taken.components.seconds) + Double(taken.components.attoseconds) / 1e18
    }

    private static func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
}
