// Reads a FreeStyle Libre 1 through an NFC reader: ReadLibre [READER [LIVES]]
//
// READER is `pcsc:` for a PC/SC reader, or a name of libnfc's such as pn532_uart:/dev/ttyACM0:115200. LIVES is a file that this program
// keeps, so that a reading has the same time at each scan, and those of a sensor that was reset are told from those of before.

import Foundation
import FreeStyleLibre
import HealthReadings
import ISO15693Reader
import LibreReader

@main
enum ReadLibre {
    static func main() async {
        let setting = CommandLine.arguments.dropFirst().first ?? "pcsc:"
        let file = CommandLine.arguments.dropFirst(2).first.map { URL(filePath: $0) }
        do {
            var lives = try file.map(keptLives) ?? [:]
            let reader = try NFCReaders().reader(setting)
            print("Hold the reader to the sensor.")
            _ = try await reader.waitForTag()
            let read = try await Libre1Reader(reader).readSensor(lives: lives) { progress in
                print("block \(progress.blocksRead) of \(progress.blocks)")
            }
            await reader.close()
            show(read)
            lives[read.sensor.serial] = read.life
            if let file { try JSONEncoder().encode(lives).write(to: file, options: .atomic) }
        } catch let error as LibreReadError {
            fail("\(error); \(error.hint ?? "")")
        } catch let error as ISO15693Error {
            fail("\(error); \(error.hint ?? "")")
        } catch {
            fail("\(error)")
        }
    }

    /// What earlier runs found of the sensors' lives, by their serial numbers.
    static func keptLives(_ file: URL) throws -> [String: Libre1Life] {
        guard FileManager.default.fileExists(atPath: file.path) else { return [:] }
        return try JSONDecoder().decode([String: Libre1Life].self, from: Data(contentsOf: file))
    }

    static func show(_ read: Libre1Read) {
        print("sensor \(read.sensor.serial), \(read.sensor.state?.name ?? "state unknown")")
        guard read.sensor.ageMinutes != nil else { fail("the sensor's memory is damaged; read it again") }
        // Values are estimates of the factory calibration. A reading that is excluded is not to be used.
        for reading in read.usable {
            guard case .glucose(let glucose) = reading.record.value, let concentration = glucose.concentration,
                let number = concentration.number.number
            else { continue }
            print("\(reading.time.instant?.description ?? "-"): \(number) \(concentration.unit.symbol)")
        }
    }

    static func fail(_ message: String) -> Never {
        FileHandle.standardError.write(Data("ReadLibre: \(message)\n".utf8))
        exit(1)
    }
}
