// Reads a FreeStyle Libre 1 through an NFC reader: ReadLibre [READER]
//
// READER is `pcsc:` for a PC/SC reader, or a name of libnfc's such as pn532_uart:/dev/ttyACM0:115200.

import Foundation
import FreeStyleLibre
import HealthReadings
import ISO15693Reader
import LibreReader

@main
enum ReadLibre {
    static func main() async {
        let setting = CommandLine.arguments.dropFirst().first ?? "pcsc:"
        do {
            let reader = try NFCReaders().reader(setting)
            print("Hold the reader to the sensor.")
            _ = try await reader.waitForTag()
            let scan = try await Libre1Reader(reader).read { progress in
                print("block \(progress.blocksRead) of \(progress.blocks)")
            }
            await reader.close()
            show(scan)
        } catch let error as LibreReadError {
            fail("\(error); \(error.hint ?? "")")
        } catch let error as ISO15693Error {
            fail("\(error); \(error.hint ?? "")")
        } catch {
            fail("\(error)")
        }
    }

    static func show(_ scan: LibreScan) {
        print("sensor \(scan.serial), \(scan.memory.state?.name ?? "state unknown")")
        guard let records = scan.sensorScan?.records else { fail("the sensor's memory is damaged; read it again") }
        // Values are estimates of the factory calibration. A record that is excluded is not to be used.
        for record in records where record.exclusion == nil {
            guard let facts = record.sensor, case .glucose(let glucose) = record.value,
                let concentration = glucose.concentration, let number = concentration.number.number
            else { continue }
            print("minute \(facts.minute) (\(facts.source.name)): \(number) \(concentration.unit.symbol)")
        }
    }

    static func fail(_ message: String) -> Never {
        FileHandle.standardError.write(Data("ReadLibre: \(message)\n".utf8))
        exit(1)
    }
}
