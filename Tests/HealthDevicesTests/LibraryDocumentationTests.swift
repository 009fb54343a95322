import Foundation
import Testing

@Suite struct LibraryDocumentationTests {
    private let here = URL(filePath: #filePath).deletingLastPathComponent()

    /// The words of a text, so that how lines are broken and indented does not matter.
    private func words(_ text: some StringProtocol) -> String {
        text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }

    @Test("the examples of the library's documentation are those that are compiled")
    func examples() throws {
        let document = try String(
            contentsOf: here.appending(path: "../../Documentation/library.md"), encoding: .utf8)
        let compiled = words(try String(contentsOf: here.appending(path: "LibraryExamples.swift"), encoding: .utf8))
        let blocks = document.components(separatedBy: "```swift\n").dropFirst().map {
            $0.components(separatedBy: "```")[0]
        }
        #expect(blocks.count >= 8)
        for block in blocks { #expect(compiled.contains(words(block)), "not compiled:\n\(block)") }
    }

    /// What a source declares as public, and the cases of enumerations.
    private func declaredNames(in source: String) -> [String] {
        let keywords: Set<Substring> = [
            "func", "var", "let", "case", "struct", "class", "actor", "enum", "protocol", "typealias",
        ]
        var names: [String] = []
        for line in source.split(separator: "\n") {
            let words = line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
            guard words.contains("public") || words.first == "case" else { continue }
            for (keyword, name) in zip(words, words.dropFirst()) where keywords.contains(keyword) {
                names.append(String(name))
            }
        }
        return names
    }

    @Test("what the page for people from the SDKs names in the library is there")
    func names() throws {
        let sources = here.appending(path: "../../Sources")
        // Modules are named, too.
        var declared = Set(try FileManager.default.contentsOfDirectory(atPath: sources.path))
        for path in try FileManager.default.subpathsOfDirectory(atPath: sources.path) where path.hasSuffix(".swift") {
            let source = try String(contentsOf: sources.appending(path: path), encoding: .utf8)
            declared.formUnion(declaredNames(in: source))
        }
        let page = try String(
            contentsOf: here.appending(path: "../../Documentation/from-the-sdks.md"), encoding: .utf8)
        var count = 0
        for row in page.split(separator: "\n") where row.hasPrefix("|") {
            let cells = String(row).components(separatedBy: " | ")
            guard cells.count == 3 else { continue }
            for (place, span) in cells[2].components(separatedBy: "`").enumerated() where place % 2 == 1 {
                // An argument's label stands alone: `model:`.
                guard !span.hasSuffix(":") else { continue }
                for name in span.prefix(while: { $0 != "(" }).split(separator: ".") {
                    #expect(declared.contains(String(name)), "\(name) of \(span)")
                    count += 1
                }
            }
        }
        #expect(count > 100)
    }
}
