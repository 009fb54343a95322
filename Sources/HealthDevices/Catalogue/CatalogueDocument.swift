import GATTClient
import GATTProfiles
import HealthReadings

extension Catalogue {
    /// The list of devices for people, in Markdown: `Documentation/devices.md`, which a test keeps equal to this.
    public var markdown: String {
        var lines = [
            "# Devices", "",
            "Made from the catalogue by `healthrelay catalog --markdown`; a test keeps it equal. A meter that is not listed",
            "is read by its standard service.", "",
            "**Nothing here has been tried on the device itself** unless *tried* says `hardware`, or `owner`: an owner has sent",
            "a [report](report-a-device.md) of the device, and it is replayed. The other words say what stood in for it: `lab`",
            "is an emulated device, with its oddities, behind the system's real software (bluetoothd, libnfc, pcscd);",
            "`emulated` one where the radio would be; `bytes` are octets laid out as those of such a device, recorded or as",
            "published.", "",
            "| brand | model | id | measures | name begins with | pairing | reading takes records away | provider | tried |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        lines += models.map(\.row)
        lines += ["", "## What to press", "", "| id | to pair | to be read |", "|---|---|---|"]
        lines += models.map { "| `\($0.id)` | \($0.howToPair) | \($0.howToWake) |" }
        lines += [
            "", "## What differs from the standard", "",
            "Each is looked for in what the device sends. Where it is not found, the standard holds. The capture is one of",
            "`Fixtures/` that shows it; a matter of the conversation is shown in one of the gateway's own with such a device.",
            "",
            "| quirk | what is done | models | capture |", "|---|---|---|---|",
        ]
        lines += Quirk.allCases.map { quirk in
            let ids = models.filter { $0.has(quirk) }.map { "`\($0.id)`" }.joined(separator: ", ")
            let known = ids.isEmpty ? "none known" : ids
            return "| `\(quirk.rawValue)` | \(quirk.explanation) | \(known) | `\(quirk.capture)` |"
        }
        lines += ["", "## Services", "", "| id | services |", "|---|---|"]
        lines += models.map { model in
            let services = model.services.map { "`\($0)`" }.joined(separator: ", ")
            return "| `\(model.id)` | \(services.isEmpty ? "none (\(model.transport.rawValue))" : services) |"
        }
        lines += [
            "", "## Omron's own memory", "",
            "A monitor of these models is read by Omron's own protocol, which shows the whole memory of each user. No name tells",
            "the model: say which it is, by the HEM number on its label, when you pair it. See [omron.md](omron.md).",
            "",
            "| id | HEM number | protocol | users | records of each | how sure |", "|---|---|---|---|---|---|",
        ]
        lines += models.compactMap { model in
            model.omronMemory.map { memory in
                let cells = [
                    "`\(model.id)`", model.name, memory.stack.explanation, "\(memory.users.count)", "\(memory.count)",
                    "`\(memory.certainty.rawValue)`",
                ]
                return "| " + cells.joined(separator: " | ") + " |"
            }
        }
        lines += [
            "", "## Other makers' own protocols", "",
            "A device of these models is found by its name and read by its maker's own protocol. See",
            "[makers.md](makers.md).", "",
            "| id | model | how sure |", "|---|---|---|",
        ]
        lines += models.compactMap { model in
            guard model.ownProtocol != nil, let certainty = model.certainty else { return nil }
            return "| `\(model.id)` | \(model.brand) \(model.name) | `\(certainty.rawValue)` |"
        }
        lines += ["", "| how sure | what that means |", "|---|---|"]
        lines += OmronMemory.Certainty.allCases.map { "| `\($0.rawValue)` | the row \($0.explanation) |" }
        lines += [
            "", "## What is implausible", "",
            "A value outside its range is kept and shown as what it is, marked `implausible`, and not delivered. The ranges are",
            "wider than what devices measure: a value that is merely alarming is a reading.", "",
            "| kind | plausible | from |", "|---|---|---|",
        ]
        lines += Plausibility.stated.map { "| `\($0.kind.rawValue)` | \($0.range) | \($0.source) |" }
        lines += [
            "",
            "A value beside these that is outside its own range loses its number, and the reading stays: the value is null",
            "everywhere, `omitted` says `implausible`, and it is delivered nowhere. The frame is kept as it came.", "",
            "| value | plausible | from |", "|---|---|---|",
        ]
        lines += Plausibility.statedBeside.map { "| `\($0.value)` | \($0.range) | \($0.source) |" }
        lines += [
            "", "## What a model measures", "",
            "A concentration that is outside what its meter measures by more than one step, compared in the unit of the record,",
            "cannot be that meter's glucose: a ketone, for one. It is kept and shown, marked `implausible`, and not delivered.",
            "A result that the meter itself calls too high or too low is no such number. Where a bound is not known, nothing is",
            "excluded by it. Of several models in one entry the widest range counts.", "",
            "| id | measures | step | from |", "|---|---|---|---|",
        ]
        lines += models.flatMap { model in
            model.ranges.map { "| `\(model.id)` | \($0) | \($0.step) \($0.unit.symbol) | \($0.source) |" }
        }
        return lines.joined(separator: "\n") + "\n"
    }
}

extension DeviceModel {
    fileprivate var row: String {
        let names = names.map(\.description).joined(separator: ", ")
        let tried = tested.map(\.rawValue).joined(separator: ", ")
        let taken =
            switch memory {
            case .kept: "no"
            case .sentOnce: "yes"
            case .none: "it keeps none"
            case .unknown: "perhaps"
            }
        let cells = [
            brand, name, "`\(id)`", kinds.map { "`\($0.rawValue)`" }.joined(separator: ", "),
            names.isEmpty ? "–" : names, pairing.rawValue.replacing("_", with: " "), taken, "`\(provider)`",
            tried.isEmpty ? "not yet" : tried,
        ]
        return "| " + cells.joined(separator: " | ") + " |"
    }
}
