//! Which product a table belongs to.

use std::collections::BTreeMap;

use crate::doc::{IdError, Lifecycle, ProductId, Urn};

/// The tables of a publisher by product.
///
/// INV-17: a table is a product of its own unless its publisher puts it together with others. Tables that are published together
/// under one lifecycle belong into one product, and best share their structures, which the product then holds once (INV-13).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grouping {
    products: BTreeMap<ProductId, Lifecycle>,
    tables: BTreeMap<Urn, ProductId>,
}

/// Why tables can't be put together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupingError {
    /// A final table beside revisable ones, or the other way round.
    #[error(
        "product {product_id} is {recorded} and table {dataflow} is {asked}: a product is one or the other, so put the table into another product (INV-15)"
    )]
    MixedLifecycles {
        /// The product.
        product_id: ProductId,
        /// The product's lifecycle.
        recorded: Lifecycle,
        /// The table.
        dataflow: Urn,
        /// The table's lifecycle.
        asked: Lifecycle,
    },
    /// A table in a second product.
    #[error(
        "table {dataflow} is in product {first} already, and was to be put into {second}: it is published once (INV-17)"
    )]
    InAnother {
        /// The table.
        dataflow: Urn,
        /// Where it is.
        first: ProductId,
        /// Where it was to be.
        second: ProductId,
    },
    /// A name that is no product's.
    #[error(transparent)]
    Name(#[from] IdError),
}

impl Grouping {
    /// Puts a table into a product of its own, or into the one named, and answers with that product.
    pub fn place(
        &mut self,
        dataflow: &Urn,
        lifecycle: Lifecycle,
        product: Option<ProductId>,
    ) -> Result<ProductId, GroupingError> {
        let product_id = match product {
            Some(product_id) => product_id,
            None => Self::own_product(dataflow)?,
        };
        if let Some(first) = self.tables.get(dataflow).filter(|first| **first != product_id) {
            return Err(GroupingError::InAnother {
                dataflow: dataflow.clone(),
                first: first.clone(),
                second: product_id,
            });
        }
        let recorded = *self.products.entry(product_id.clone()).or_insert(lifecycle);
        if recorded != lifecycle {
            return Err(GroupingError::MixedLifecycles {
                product_id,
                recorded,
                dataflow: dataflow.clone(),
                asked: lifecycle,
            });
        }
        self.tables.insert(dataflow.clone(), product_id.clone());
        Ok(product_id)
    }

    /// INV-17: the product a table has by default: `<agency>.<id>` of its dataflow. Its versions are editions of one product.
    pub fn own_product(dataflow: &Urn) -> Result<ProductId, IdError> {
        use std::fmt::Write as _;
        let mut name = format!("{}.", dataflow.agency());
        for character in dataflow.id().chars() {
            // The two characters of an id that no product's name has. A tilde is in no id, so no two ids become one name.
            match character {
                '@' | '$' => write!(name, "~{:02x}", u32::from(character)).unwrap_or_default(),
                other => name.push(other),
            }
        }
        name.parse()
    }

    /// The product of a table.
    pub fn product_of(&self, dataflow: &Urn) -> Option<&ProductId> {
        self.tables.get(dataflow)
    }

    /// The lifecycle of a product.
    pub fn lifecycle_of(&self, product: &ProductId) -> Option<Lifecycle> {
        self.products.get(product).copied()
    }

    /// The tables of a product.
    pub fn tables_of<'a>(&'a self, product: &'a ProductId) -> impl Iterator<Item = &'a Urn> {
        let of_product = self.tables.iter().filter(move |(_, held)| *held == product);
        of_product.map(|(table, _)| table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(name: &str) -> Urn {
        format!("urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow={name}(1.0)")
            .parse()
            .unwrap()
    }

    /// INV-17: by default every table is a product of its own, and no two tables share a name.
    #[test]
    fn a_table_is_a_product_of_its_own() {
        let mut grouping = Grouping::default();
        let flows = ["STC:DF_A", "STC:DF_B", "STC.SUB:DF_A", "STC:A@B", "STC:A$B", "STC:A-B"].map(flow);
        let mut products = std::collections::BTreeSet::new();
        for table in &flows {
            let product = grouping.place(table, Lifecycle::Revisable, None).unwrap();
            assert_eq!(grouping.tables_of(&product).collect::<Vec<_>>(), [table]);
            assert!(products.insert(product.clone()), "{product}");
        }
        assert_eq!(grouping.product_of(&flows[0]).unwrap().as_str(), "STC.DF_A");
        assert_eq!(grouping.product_of(&flows[3]).unwrap().as_str(), "STC.A~40B");
    }

    /// INV-13, INV-15: tables published together share a product when all are final or all are revisable; another is refused and
    /// changes nothing.
    #[test]
    fn a_product_is_final_or_revisable() {
        let mut grouping = Grouping::default();
        let census: ProductId = "census".parse().unwrap();
        let tables = ["STC:AGE", "STC:SEX", "STC:FLASH"].map(flow);
        for table in &tables[..2] {
            let placed = grouping.place(table, Lifecycle::Final, Some(census.clone()));
            assert_eq!(placed.unwrap(), census);
        }
        let before = grouping.clone();
        let refused = grouping.place(&tables[2], Lifecycle::Revisable, Some(census.clone()));
        let refused = refused.unwrap_err();
        assert!(matches!(refused, GroupingError::MixedLifecycles { .. }), "{refused}");
        assert!(refused.to_string().contains("INV-15"), "{refused}");
        assert_eq!(grouping, before);
        assert_eq!(grouping.tables_of(&census).count(), 2);
        assert_eq!(grouping.lifecycle_of(&census), Some(Lifecycle::Final));
        let own = grouping.place(&tables[2], Lifecycle::Revisable, None).unwrap();
        let twice = grouping.place(&tables[2], Lifecycle::Revisable, Some("other".parse().unwrap()));
        assert!(matches!(twice, Err(GroupingError::InAnother { first, .. }) if first == own));
        assert_eq!(grouping.place(&tables[2], Lifecycle::Revisable, None), Ok(own));
    }
}
