import ArgumentParser
import HealthDevices
import HealthReadings

struct Catalog: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "catalog", abstract: "List the brands and models that the gateway knows.")
    @Flag(help: "Print the list as Markdown (Documentation/devices.md).")
    var markdown = false
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        guard !markdown else { return Terminal.data(Array(Catalogue().markdown.utf8)) }
        let models = Catalogue().models
        guard !global.json else {
            return Terminal.data(JSONValue.object(["models": .array(models.map(\.document))]).text)
        }
        for model in models {
            let kinds = model.kinds.map(\.rawValue).joined(separator: ", ")
            let tested =
                model.tested.isEmpty
                ? "not tested yet" : "tested: " + model.tested.map(\.rawValue).joined(separator: ", ")
            let certainty = model.certainty.map { "; own protocol \($0.rawValue)" } ?? ""
            Terminal.data(
                "\(model.id): \(model.brand) \(model.name) (\(kinds); provider \(model.provider); \(tested)\(certainty))"
            )
        }
    }
}
